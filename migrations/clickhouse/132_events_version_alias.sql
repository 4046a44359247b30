-- The name that docs/design/contracts.md gives to the version of an event.
alter table events add column if not exists _version UInt32 alias version
