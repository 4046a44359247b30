-- A row of an undone import is free: the same row in another file is a new event, with an id of its own.

-- The id of the row itself, where its event has another one because undone imports have brought it before. Null: it is event_id.
alter table import_rows add column row_id uuid;
-- Its import was undone, and what it said of its order counts no more. The row stays, so that the undo can be repeated.
alter table import_rows add column is_undone boolean not null default false;
create index import_rows_again on import_rows (client_id, row_id) where row_id is not null;
grant update (is_undone) on import_rows to tributary_keeper;
