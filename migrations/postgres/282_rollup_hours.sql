-- Hours whose dimensions and repeats of clicks do not show yet what their minutes show: written when minutes have been computed, taken by whoever counts
-- whole hours. An hour that is touched again gets a higher sequence, so that it is cleared only if nothing came since it was read.
create table rollup_hours (
  client_id int not null,
  hour timestamptz(3) not null,
  -- The newest mark of its minutes.
  sequence bigint not null,
  -- Since when something of this hour waits.
  marked_at timestamptz(3) not null,
  primary key (client_id, hour)
) with (fillfactor = 50);

alter table rollup_hours enable row level security;
alter table rollup_hours force row level security;
create policy schedule on rollup_hours to tributary_keeper using (true) with check (true);
grant select, insert, update, delete on rollup_hours to tributary_keeper;
