-- Subjects that were erased: whatever says something about one, up to the moment of the erasure, is written to no store again. A row is there before the
-- first delete of an erasure, and for good; `subject` is what the log holds of the subject (processors/suppression.ts), never the subject itself.
create sequence suppression_revisions as int;
create table suppressions (
  client_id int not null,
  kind text not null check (kind in ('did', 'email', 'phone', 'client_lead_id', 'order_id')),
  subject text not null check (subject ~ '^[0-9a-f-]{36}$|^[0-9a-f]{64}$'),
  -- What happened after it is new, and nobody has asked to forget it.
  since timestamptz(3) not null,
  reason text not null check (reason <> ''),
  actor text not null check (actor <> ''),
  -- In the order of commits, since writers take turns: whoever has seen one has seen all below it.
  revision int not null unique,
  primary key (client_id, kind, subject)
);

alter table suppressions enable row level security;
alter table suppressions force row level security;
create policy tenant on suppressions to tributary_app using (client_id = any (app_clients())) with check (client_id = any (app_clients()));
-- Every writer keeps the whole list in memory.
create policy snapshot on suppressions for select to tributary_reference using (true);
grant select, insert, update (since, reason, actor, revision) on suppressions to tributary_app;
grant select on suppressions to tributary_reference;
grant usage on sequence suppression_revisions to tributary_app;
