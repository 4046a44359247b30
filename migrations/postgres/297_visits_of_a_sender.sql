-- Who begins recordings: a stranger would begin all visits that a client records in a day otherwise.

-- Whether the visit began with a ticket of GET /config. Of visits before, nothing is known: they take no place of the share without one.
alter table recordings add column has_ticket boolean not null default true;

-- How many visits of a client an address began in an hour, and its network in 24. It names no visit and no device, so an erasure has nothing to do here.
create table recording_senders (
  client_id int not null,
  -- Keyed hash of an address with its hour, or of a network.
  sender bytea not null check (length(sender) = 12),
  -- Hours since 1970.
  hour int not null,
  visits int not null,
  -- Of these, those that began without a ticket.
  ticketless int not null,
  -- From then on it bounds nothing, and the keeper deletes it.
  ends_at timestamptz(3) not null,
  primary key (client_id, sender, hour)
);
create index recording_senders_end on recording_senders (ends_at);
alter table recording_senders enable row level security;
alter table recording_senders force row level security;
create policy pixel on recording_senders to tributary_pixel using (client_id = any (app_clients())) with check (client_id = any (app_clients()));
create policy keeper on recording_senders to tributary_keeper using (true);
grant select, insert, update on recording_senders to tributary_pixel;
grant select (ends_at), delete on recording_senders to tributary_keeper;
