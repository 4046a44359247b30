-- When the platform API was first sent an alert: then it is in the audit.
alter table system_alerts add column received_at timestamptz(3);
grant update (received_at) on system_alerts to tributary_keeper;
