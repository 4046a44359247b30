-- Not null where Postgres was away when credit was decided: of what then, says the time. Read again while it is there, the event has none (R1 is suspended for such events).
alter table events comment column if exists reference_as_of 'volatile: how old the reference data were, where Postgres was away'
