-- What `tributary erase` needs. Of a device that was found by an e-mail or phone of its visitor the list says by which: an erasure that a crash has cut
-- short is run again, and the edges that led to the device are gone by then.
alter table suppressions add column found_by text check (found_by ~ '^[0-9a-f-]{36}$|^[0-9a-f]{64}$');
grant update (found_by) on suppressions to tributary_app;

-- What is personal of rows that money is explained by, and rows of events in an app that earned nothing.
create policy keeper on product_sales to tributary_keeper using (true);
create policy keeper on app_events to tributary_keeper using (true);
create policy keeper on conversions to tributary_keeper using (true);
grant select, update (did, order_id) on product_sales to tributary_keeper;
grant select, delete, update (did, order_id) on app_events to tributary_keeper;
grant select, update (customer, order_id) on conversions to tributary_keeper;
