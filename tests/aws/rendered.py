"""A template with its parameters put in, by the rules of CloudFormation's documentation and none of our code: what would be made, and with which values.

What a resource is called or where it lies is not known before it is there; `<Name>` and `<Name.Attribute>` stand for it."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml


class Short(yaml.SafeLoader):
    "YAML with the short forms of CloudFormation's functions, as its documentation gives them."


def _long(loader: Short, name: str, node: yaml.Node) -> dict[str, Any]:
    "`!Sub text` as `{Fn::Sub: text}`."
    if isinstance(node, yaml.ScalarNode):
        inside: Any = loader.construct_scalar(node)
    else:
        inside = loader.construct_sequence(node, deep=True)
    if name == "GetAtt":
        inside = inside.split(".", 1)
    return {"Ref" if name == "Ref" else f"Fn::{name}": inside}


Short.add_multi_constructor("!", _long)
loaded = lru_cache(lambda path: yaml.load(path.read_text(), Short))
PSEUDO = {"AWS::Partition": "aws", "AWS::Region": "eu-central-1", "AWS::AccountId": "111122223333", "AWS::StackName": "dmscdc-shared"}
GONE = object()


class Rendered:
    "One template with one choice of parameters."

    def __init__(self, path: Path, imported: dict[str, str] | None = None, **given: Any):
        self.template = loaded(path)
        unknown = set(given) - set(self.template.get("Parameters", {}))
        assert not unknown, f"{path.name} has no parameters {unknown}"
        missing = [name for name, one in self.template.get("Parameters", {}).items() if name not in given and "Default" not in one]
        assert not missing, f"{path.name} wants {missing}"
        self.values = {name: given.get(name, one.get("Default")) for name, one in self.template.get("Parameters", {}).items()}
        self.imported = imported or {}
        here = self.template["Resources"]
        self.resources = {name: self.of(one) for name, one in here.items() if self.is_made(name)}
        outputs = {
            name: one
            for name, one in self.template.get("Outputs", {}).items()
            if "Condition" not in one or self.holds(self.template["Conditions"][one["Condition"]])
        }
        self.outputs = {name: self.of(one["Value"]) for name, one in outputs.items()}

    def is_made(self, resource: str) -> bool:
        condition = self.template["Resources"][resource].get("Condition")
        return condition is None or self.holds(self.template["Conditions"][condition])

    def holds(self, condition: Any) -> bool:
        ((kind, parts),) = condition.items()
        if kind == "Fn::Equals":
            return len({str(self.of(part)) for part in parts}) == 1
        if kind == "Fn::Not":
            return not self.holds(parts[0])
        if kind == "Fn::And":
            return all(map(self.holds, parts))
        if kind == "Fn::Or":
            return any(map(self.holds, parts))
        raise AssertionError(f"what is {kind}?")

    def named(self, name: str) -> Any:
        "What `Ref` names."
        if name == "AWS::NoValue":
            return GONE
        if name in PSEUDO:
            return PSEUDO[name]
        if name in self.values:
            return self.values[name].split(",") if "List" in self.template["Parameters"][name]["Type"] else self.values[name]
        assert name in self.template["Resources"], f"nothing is called {name}"
        assert self.is_made(name), f"{name} is not made with {self.values}"
        return f"<{name}>"

    def attribute(self, resource: str, name: str) -> str:
        "What `GetAtt` names. The text in a parameter of Systems Manager is what the template puts there."
        assert self.named(resource)
        made = self.template["Resources"][resource]
        return self.of(made["Properties"]["Value"]) if (made["Type"], name) == ("AWS::SSM::Parameter", "Value") else f"<{resource}.{name}>"

    def of(self, part: Any) -> Any:
        "A part with everything put in."
        if isinstance(part, list):
            return [one for one in map(self.of, part) if one is not GONE]
        if not isinstance(part, dict):
            return part
        if len(part) == 1:
            ((kind, inside),) = part.items()
            if kind == "Ref":
                return self.named(inside)
            if kind == "Fn::GetAtt":
                return self.attribute(*inside)
            if kind == "Fn::If":
                return self.of(inside[1 if self.holds(self.template["Conditions"][inside[0]]) else 2])
            if kind == "Fn::Join":
                return inside[0].join(self.of(inside[1]))
            if kind == "Fn::FindInMap":
                first, second, third = map(self.of, inside)
                return self.template["Mappings"][first][second][third]
            if kind == "Fn::ImportValue":
                return self.imported[self.of(inside)]
            if kind == "Fn::Sub":
                text, more = inside if isinstance(inside, list) else (inside, {})

                def put_in(found: re.Match[str]) -> str:
                    if found[1] in more:
                        return str(self.of(more[found[1]]))
                    is_attribute = "." in found[1]
                    return str(self.attribute(*found[1].split(".", 1)) if is_attribute else self.named(found[1]))

                return re.sub(r"\$\{([^}]+)\}", put_in, text)
        return {name: value for name, value in ((name, self.of(one)) for name, one in part.items()) if value is not GONE}
