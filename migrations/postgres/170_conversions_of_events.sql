-- The conversions of an event, and of what was decided about it: order details and explanations ask for these.
create index conversions_event on conversions (event_id, client_id);
create index conversions_cause on conversions (cause_event_id, client_id);
