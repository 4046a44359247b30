-- A failure is named after who refused what and where it lay, whatever letter it belongs to: read again after that letter was discarded, it is still told.
alter table dead_letter_failures drop constraint dead_letter_failures_pkey;
alter table dead_letter_failures add column failure_id uuid not null default gen_random_uuid();
alter table dead_letter_failures alter column failure_id drop default;
alter table dead_letter_failures add primary key (failure_id);
create index dead_letter_failures_letter on dead_letter_failures (letter_id, failed_at);
