-- The index of the dead letters: one row for whatever a reader refused, the bytes stay in the topics *.dlq. What a letter is and which states follow each
-- other is decided in apps/dead-letters/letter.ts; what is here keeps it and is looked things up in.
create table dead_letters (
  -- dl_ and 32 digits, made of where the refused record lies, its bytes, and who refused it: read again, it is the same letter.
  letter_id text primary key check (letter_id ~ '^dl_[0-9a-f]{32}$'),
  kind text not null check (kind in ('clicks', 'pixel', 's2s')),
  state text not null check (state in ('waiting', 'retrying', 'reprocessed', 'parked', 'discarded')),
  stage text not null,
  code text not null,
  message text not null,
  -- Where the record lay that was refused first.
  source_topic text not null,
  source_partition int not null,
  source_offset bigint not null,
  -- Where its bytes are kept.
  kept_topic text not null,
  kept_partition int not null,
  kept_offset bigint not null,
  -- Travels in a header with what is sent again, so that a further failure finds its letter.
  root uuid not null,
  -- The same for what goes on without headers: an event, or the bytes of a record without one; null where nobody can read it.
  subject uuid,
  event_id text,
  -- Null: unreadable, hence nobody's; only operators see it.
  client_id int,
  -- How often it was sent again and failed again.
  attempts int not null default 0 check (attempts >= 0),
  first_failed_at timestamptz(3) not null,
  last_failed_at timestamptz(3) not null,
  next_attempt_at timestamptz(3) check ((next_attempt_at is not null) = (state = 'waiting')),
  -- While it is being sent: until then nobody else takes it. Sent when the log has acknowledged it.
  lease_until timestamptz(3) check ((lease_until is not null) = (state = 'retrying')),
  sent_at timestamptz(3),
  closed_at timestamptz(3) check ((closed_at is not null) = (state in ('reprocessed', 'discarded'))),
  -- Of a discarded one: who, and why.
  closed_by text,
  close_reason text check ((close_reason is not null) = (state = 'discarded'))
) with (fillfactor = 70);
create index dead_letters_due on dead_letters (next_attempt_at) where state = 'waiting';
create index dead_letters_under_way on dead_letters (lease_until) where state = 'retrying';
create index dead_letters_open on dead_letters (kind, state, first_failed_at) where state in ('waiting', 'retrying', 'parked');
create index dead_letters_subject on dead_letters (subject, stage) where subject is not null;
create index dead_letters_client on dead_letters (client_id, last_failed_at);
create index dead_letters_newest on dead_letters (last_failed_at desc, letter_id);

-- Every failure of a letter, once: a record of a dead-letter topic that was produced twice, or is read again, is already here.
create table dead_letter_failures (
  letter_id text not null references dead_letters,
  source_topic text not null,
  source_partition int not null,
  source_offset bigint not null,
  code text not null,
  message text not null,
  failed_at timestamptz(3) not null,
  kept_topic text not null,
  kept_partition int not null,
  kept_offset bigint not null,
  primary key (letter_id, source_topic, source_partition, source_offset)
);

alter table dead_letters enable row level security;
alter table dead_letters force row level security;
create policy tenant on dead_letters for select to tributary_app using (client_id = any (app_clients()));
create policy schedule on dead_letters to tributary_keeper using (true) with check (true);
grant select on dead_letters to tributary_app;
grant select, insert, update on dead_letters to tributary_keeper;
alter table dead_letter_failures enable row level security;
alter table dead_letter_failures force row level security;
create policy schedule on dead_letter_failures to tributary_keeper using (true) with check (true);
grant select, insert on dead_letter_failures to tributary_keeper;
