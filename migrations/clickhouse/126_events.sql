rename table if exists events_ranked to events
