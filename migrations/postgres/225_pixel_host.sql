-- The host of pixels reads the configuration of every client, as it reads all reference data.
grant select on pixel_configs to tributary_reference;
create policy snapshot on pixel_configs for select to tributary_reference using (true);

-- What the host saw of an integration, by hour: what was taken, refused, or came from a page that is not on the list.
create table pixel_sightings (
  client_id int not null,
  -- When the hour begins.
  hour timestamptz(3) not null,
  -- A closed set: taken, without_consent, domain_not_allowed, clock_skew, page_problem, or the code of a refusal.
  code text not null check (char_length(code) <= 64),
  -- Which page, type or problem; at most 100 of a client and an hour, the others as ''.
  subject text not null check (char_length(subject) <= 200),
  count bigint not null check (count > 0),
  -- Of clock_skew the largest, in milliseconds.
  largest_ms bigint not null default 0,
  last_at timestamptz(3) not null,
  primary key (client_id, hour, code, subject)
);
create index pixel_sightings_hour on pixel_sightings (hour);
alter table pixel_sightings enable row level security;
alter table pixel_sightings force row level security;
create policy tenant on pixel_sightings for select to tributary_app using (client_id = any (app_clients()));
create policy edge on pixel_sightings to tributary_edge using (true) with check (true);
grant select on pixel_sightings to tributary_app;
grant select, insert, update, delete on pixel_sightings to tributary_edge;
