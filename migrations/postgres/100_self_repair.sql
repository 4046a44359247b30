-- What the keeper knows of each store, and what it has told of them. Both belong to no tenant.
create table probe_states (
  name text primary key check (name in ('analytics_store', 'cache_store', 'object_store', 'relational_store')),
  state text not null default 'healthy' check (state in ('healthy', 'failing', 'restarting', 'down')),
  -- Failed probes in a row.
  failures int not null default 0,
  since timestamptz(3) not null default clock_timestamp(),
  checked_at timestamptz(3),
  last_ok_at timestamptz(3),
  last_error text,
  -- The first failed probe of those in a row: where a downtime begins.
  failing_since timestamptz(3),
  incident_id text,
  -- Of the last hour, oldest first.
  restarted_at timestamptz(3)[] not null default '{}',
  -- One keeper probes; another takes over when its lease has run out.
  leased_by text,
  leased_until timestamptz(3) not null default '-infinity'
);
insert into probe_states (name) values ('analytics_store'), ('cache_store'), ('object_store'), ('relational_store');

create table system_alerts (
  alert_id bigint primary key generated always as identity,
  incident_id text not null,
  service text not null,
  status text not null check (status in ('down', 'recovered')),
  severity text not null check (severity in ('normal', 'critical')),
  reason text not null,
  duration text check ((duration is null) or status = 'recovered'),
  told_at timestamptz(3) not null,
  created_at timestamptz(3) not null default clock_timestamp(),
  -- Null: no mail server is configured, or none has taken it yet.
  mailed_at timestamptz(3),
  mail_error text,
  -- One mail an incident, status and severity, whoever reports it how often.
  unique (incident_id, status, severity)
);

grant select, update on probe_states to tributary_keeper;
grant select, insert, update (mailed_at, mail_error) on system_alerts to tributary_keeper;
