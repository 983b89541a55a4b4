"""Many sessions at once with one zcrdmad: crowd.c says what its processes can do."""

import subprocess

from harness import BUILD, DEADLINE_S, environment

CROWD = BUILD / "tests" / "e2e" / "e2e_crowd"


class Crowd:
    """e2e_crowd; the first of its arguments says what it does."""

    def __init__(self, daemon, *arguments):
        host, port = daemon.address.rsplit(":", 1)
        command = [str(CROWD), host.strip("[]"), port, *map(str, arguments)]
        self.process = subprocess.Popen(command, env=environment(preload=True), text=True, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def line(self):
        line = self.process.stdout.readline().strip()
        assert line, f"e2e_crowd ended with {self.process.wait()}: {self.process.stderr.read()}"
        return line

    def say(self, word):
        self.process.stdin.write(f"{word}\n")
        self.process.stdin.flush()

    def stop(self):
        """How many READs there were."""
        self.process.stdin.close()
        word, count = self.line().split(" ", 1)
        assert word == "reads", count
        assert self.process.wait(DEADLINE_S) == 0
        return int(count)

    def kill(self):
        self.process.kill()
        self.process.wait(DEADLINE_S)

    def end(self):
        self.kill()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            pipe.close()
