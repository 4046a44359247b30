rename table if exists events to events_unranked
