-- Conversions that still name their customer, by age: what was scrubbed is not looked at again. Sales and events in apps have an index by age already.
create index conversions_named on conversions (client_id, occurred_at) where customer <> '' and not starts_with(customer, 'erased:');
