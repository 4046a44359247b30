-- A group is also held while one record that stops it is set aside (apps/dead-letters/set-aside.ts).
alter table group_holds drop constraint group_holds_kind_check;
alter table group_holds add constraint group_holds_kind_check check (kind in ('rewind', 'relearn', 'reprocess', 'set_aside'));
