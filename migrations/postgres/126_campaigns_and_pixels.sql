-- A campaign that was deleted stays for the sales that name it. Null, as processes of before write it: not archived.
alter table campaigns add column archived boolean;
create index campaigns_client on campaigns (client_id);
create index links_campaign on links (campaign_id);

-- How the pixel of a client works; a client without a row has the defaults. jurisdiction and consent_default are columns of the client.
create table pixel_configs (
  client_id int primary key,
  version int not null check (version > 1),
  allowed_domains text[] not null,
  tracked_events text[] not null,
  replay_enabled boolean not null,
  -- Percent of visits.
  replay_sample_rate double precision not null check (replay_sample_rate between 0 and 100),
  consent_replay boolean not null,
  tracking_type text not null check (tracking_type in ('PIXEL', 'HYBRID', 'S2S', 'APP')),
  auto_signals boolean not null,
  updated_at timestamptz(3) not null default clock_timestamp()
);
alter table pixel_configs enable row level security;
alter table pixel_configs force row level security;
create policy tenant on pixel_configs to tributary_app using (client_id = any (app_clients())) with check (client_id = any (app_clients()));
grant select, insert, update on pixel_configs to tributary_app;
