-- An edge that could not read its spool does not know how many events wait there: null is unknown, and no longer 0.
alter table ingest_path_checks alter column waiting_events drop not null;
