-- Whether the refused sender had shown no credential: the pixel without a known client, a source without a secret. What such
-- a sender sent and never becomes an event is not sent again; few such letters leave the health of the installation as it is.
alter table dead_letters add column is_stranger boolean not null default false;
grant select (is_stranger, first_failed_at) on dead_letters to tributary_edge;
-- Health counts open letters every two seconds, from the index alone.
drop index dead_letters_open;
create index dead_letters_open on dead_letters (kind, state, first_failed_at) include (is_stranger)
  where state in ('waiting', 'retrying', 'parked');
