"""Writes docs/decisions/plain-english.md from glossary.tsv: python glossary_page.py WORKTREE"""
import sys
from pathlib import Path
rows=[l.split("\t") for l in Path(__file__).with_name("glossary.tsv").read_text().splitlines()[1:]]
out=["""# Plain English

Until version 0.1.0 many names, messages and pages were written by people whose first language is not English: a long poll
was *parked*, a saved session *kept*, a reply *told*. Before the first release each was given the word that an engineer
would say aloud. This page is for readers of older commits, issues and branches: it says what a name was called before.

The rule is in `CONTRIBUTING.md`: the field's usual word wins over a short, clever or literal one. Names on
disk, on the wire, in the database and in metrics did not change.

## Words

| before | now |
|---|---|
| answer (of a server) | response (HTTP), reply (socket, engine) |
| tell, told | notify, report, reply |
| hear, heard of | on_notice, seen |
| ask, look | call, check, scan, measure |
| keep, kept | save, saved; retain, retained (by age) |
| held (messages) | leased |
| parked | waiting; the request is a long poll |
| gone, away (a client, a server) | disconnected, unavailable |
| gone (a row, a message) | removed, missing, expired |
| go on | continue, resume, apply |
| begin, end (a scan, a write) | start, finish |
| give back, given up | release, dead-letter |
| wanted, fits | matches |
| refuse, refused (our own checks) | reject, rejected, invalid |
| question, order (a request) | query, request |
| make, found (a tenant, a key) | create, issue |
| people, person, somebody | user, member, someone |
| night, mail | due day, email |
| road, lane | trace, path |

## Modules

| package | before | now |
|---|---|---|
"""]
out += [f"| {s} | `{o}` | `{n}` |\n" for k,s,o,n,*_ in rows if k=="module" and not s.startswith("tests")]
out += ["\n## Classes\n\n| module | before | now |\n|---|---|---|\n"]
mods={f"{r[1]}.{r[2]}":f"{r[1]}.{r[3]}" for r in rows if r[0]=="module"}
out += [f"| `{mods.get(s,s)}` | `{o}` | `{n}` |\n" for k,s,o,n,*_ in rows if k=="class" and not o.startswith("_")]
page=Path(sys.argv[1])/"docs/decisions/plain-english.md"; page.parent.mkdir(exist_ok=True); page.write_text("".join(out))
