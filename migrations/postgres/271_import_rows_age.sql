-- Rows come in the order of their days: which of them are old enough to be forgotten is known without reading the others.
create index import_rows_age on import_rows using brin (created_at);
