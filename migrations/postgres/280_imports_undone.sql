-- What an undo of an import came to, beside undone_at: who asked for it and why, what became of its rows, and the sums by currency.
alter table imports add column undone jsonb;
-- An erasure has been asked for since: rejected rows of this import are kept without those of erased subjects from then on.
alter table imports add column errors_erase_at timestamptz(3);
create index imports_errors_erase on imports (errors_erase_at) where errors_erase_at is not null;
grant update (undone, errors_erase_at) on imports to tributary_app;
