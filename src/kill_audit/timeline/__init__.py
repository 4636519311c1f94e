"""Tasks' lives: what each source says (`follow`), and all of it put together (`join`).

Rules of this room: it knows what happened to tasks and processes, and never why; it knows no databases and no formats.
"""

from kill_audit.grammar.ids import hash_of
from kill_audit.timeline.deaths import Blind, Death, IdleExit, Spared
from kill_audit.timeline.follow import Follower
from kill_audit.timeline.join import History, Receipt, Twice, join, overlapping, second_look
from kill_audit.timeline.lives import Ending, Life, LifeEnd
from kill_audit.timeline.naming import Name
from kill_audit.timeline.partial import End, Group, Mark, Partial, Run, Segment, Stretch
from kill_audit.timeline.stops import Stop, stops_of

__all__ = [
    "Blind",
    "Death",
    "End",
    "Ending",
    "Follower",
    "Group",
    "History",
    "IdleExit",
    "Life",
    "LifeEnd",
    "Mark",
    "Name",
    "Partial",
    "Receipt",
    "Run",
    "Segment",
    "Spared",
    "Stop",
    "Stretch",
    "Twice",
    "hash_of",
    "join",
    "overlapping",
    "second_look",
    "stops_of",
]
