-- How much anyone may send of a client in a day (modules/intake/quotas/quotas.ts). The plan of a client names its row; `standard` holds for a plan
-- without one, and `strangers` for what names no client of ours.
create table intake_plans (
  plan text primary key check (plan ~ '^[^[:cntrl:]]{1,40}$'),
  events_a_day bigint not null check (events_a_day between 1 and 1000000000000),
  bytes_a_day bigint not null check (bytes_a_day between 1 and 1000000000000000),
  -- So many hours of a day's quota may come at once.
  burst_hours int not null check (burst_hours between 1 and 24)
);
insert into intake_plans values
  ('standard', 50000000, 53687091200, 6),
  ('enterprise', 500000000, 536870912000, 6),
  ('strangers', 1000000, 2147483648, 6);
grant select on intake_plans to tributary_app_ingest, tributary_app_links, tributary_app_pixel, tributary_edge, tributary_app;
grant select, insert, update on intake_plans to tributary_keeper;

-- What is spent and not given back yet: it runs off by a day's quota a day. Client 0: strangers. Every edge that quotas hold for adds to it, over all
-- clients, and the platform API for leads.
create table intake_usage (
  client_id int not null,
  side text not null check (side in ('open', 'signed')),
  events double precision not null,
  bytes double precision not null,
  measured_at timestamptz not null,
  -- Events that were refused, since ever and last.
  refused bigint not null default 0,
  refused_at timestamptz,
  -- The share at which its last mail was sent, 80 or 100; null once it is below 70 %.
  announced int,
  primary key (client_id, side)
);
alter table intake_usage enable row level security;
alter table intake_usage force row level security;
create policy edges on intake_usage to tributary_app_ingest, tributary_app_links, tributary_app_pixel, tributary_edge using (true) with check (true);
grant select, insert, update (events, bytes, measured_at, refused, refused_at) on intake_usage
  to tributary_app_ingest, tributary_app_links, tributary_app_pixel, tributary_edge;
create policy keeper on intake_usage to tributary_keeper using (true) with check (true);
grant select, update (announced) on intake_usage to tributary_keeper;
