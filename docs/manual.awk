# Help texts and the example configuration as scdoc(5). mode: options, command, strategies or keys; without: names of options that are
# left out, between blanks. See manual.

function escape(text) {
  gsub(/[\\_*~+<>`]/, "\\\\&", text)
  gsub(/^[^A-Za-z0-9\\]/, "\\\\&", text)
  return text
}

# "  -o, --output FILE    what it does": two blanks or more end the left part.
function option(line, left, help, words, count, name, shown) {
  sub(/^ +/, "", line)
  match(line, /  +/)
  left = substr(line, 1, RSTART - 1)
  help = substr(line, RSTART + RLENGTH)
  count = split(left, words, " ")
  name = words[1] ~ /,$/ ? words[2] : words[1]
  if (index(without, " " substr(name, 3) " "))
    return
  shown = words[1] ~ /,$/ ? "*" words[1] "* *" name "*" : "*" name "*"
  sub(/,\*/, "*,", shown)
  if (words[count] != name)
    shown = shown " _" escape(words[count]) "_"
  printf "%s\n\t%s\n\n", shown, escape(help)
}

mode == "options" && /^ +(-[A-Za-z], )?--/ { option($0) }

mode == "command" && NR == 1 {
  sub(/^Usage: /, "")
  sub(/ \[OPTIONS\]$/, "")
  printf "## %s\n\n", escape($0)
  next
}
mode == "command" && NR == 2 { printf "%s\n\n", escape($0); next }
mode == "command" && /^Options:$/ { next }
mode == "command" && /^Strategies:/ { next }
mode == "command" && /^ +(-[A-Za-z], )?--/ { option($0); next }
mode == "command" && /^$/ { print ""; next }
mode == "command" { print escape($0) }

mode == "strategies" && /^[a-z_]+/ && !/^and / { split($0, parts, ", "); printf "*%s*%s\n", escape(parts[1]), parts[2] ? ", " escape(parts[2]) : "" }
mode == "strategies" && /^  shows/ { sub(/^  shows +/, ""); printf "\t%s.\n\n", escape($0) }

# "# comment" lines, then "#key = default".
mode == "keys" && /^# / { comment = comment "\t" escape(substr($0, 3)) "\n"; next }
mode == "keys" && /^#[a-z_]+ = / {
  key = substr($1, 2)
  sub(/^#[a-z_]+ = /, "")
  printf "*%s* = _%s_\n%s\n", escape(key), escape($0), comment
}
mode == "keys" { comment = "" }
