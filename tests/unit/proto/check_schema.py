"""check_schema.py --strict|--loose SCHEMA DOCUMENT... - every document validates, and a strict schema is strict: without any one member, or
with one more, none does."""

import copy
import json
import pathlib
import sys

import jsonschema


def reject_constant(name):
    raise ValueError(f"{name} is not JSON")


def objects(value, path=()):
    """Paths of all objects in a document."""
    if isinstance(value, dict):
        yield path
        for name, member in value.items():
            yield from objects(member, path + (name,))


def at(document, path):
    for name in path:
        document = document[name]
    return document


def check_strict(validator, document, name):
    for path in objects(document):
        for member in at(document, path):
            broken = copy.deepcopy(document)
            del at(broken, path)[member]
            assert not validator.is_valid(broken), f"{name}: valid without {'.'.join(path + (member,))}"
        broken = copy.deepcopy(document)
        at(broken, path)["surprise"] = 1
        assert not validator.is_valid(broken), f"{name}: valid with {'.'.join(path + ('surprise',))}"


def known_schemas(folder):
    """What a schema may refer to: those beside it, by their $id."""
    schemas = [json.loads(path.read_text(encoding="utf-8")) for path in folder.glob("*.schema.json")]
    return {schema["$id"]: schema for schema in schemas}


def main():
    with open(sys.argv[2], encoding="utf-8") as file:
        schema = json.load(file)
    jsonschema.Draft202012Validator.check_schema(schema)
    resolver = jsonschema.RefResolver.from_schema(schema, store=known_schemas(pathlib.Path(sys.argv[2]).parent))
    validator = jsonschema.Draft202012Validator(schema, resolver=resolver)
    for name in sys.argv[3:]:
        with open(name, encoding="utf-8") as file:
            document = json.load(file, parse_constant=reject_constant)
        errors = [f"{name}: {'.'.join(map(str, e.absolute_path))}: {e.message}" for e in validator.iter_errors(document)]
        assert not errors, "\n".join(errors)
        if sys.argv[1] == "--strict":
            check_strict(validator, document, name)


main()
