drop table if exists events_unranked sync
