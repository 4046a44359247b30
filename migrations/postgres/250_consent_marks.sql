-- Devices that chose what they consent to, until the minutes of what they did are marked to be counted again: written by the sink of consent after its
-- rows, taken by the keeper. A device that chooses again gets a higher sequence, so that a mark is cleared only if nothing came since it was read.
create table consent_marks (
  client_id int not null,
  -- A keyed hash.
  did text not null,
  sequence bigint not null,
  marked_at timestamptz(3) not null default clock_timestamp(),
  primary key (client_id, did)
) with (fillfactor = 50);

alter table consent_marks enable row level security;
alter table consent_marks force row level security;
create policy tenant on consent_marks to tributary_app using (client_id = any (app_clients())) with check (client_id = any (app_clients()));
create policy schedule on consent_marks to tributary_keeper using (true);
grant select, insert, update on consent_marks to tributary_app;
grant select, delete on consent_marks to tributary_keeper;
