-- Versions below 16 million and offsets below 10^12 fit.
alter table events add column if not exists rank UInt64 materialized toUInt64(version) * 1099511627776 + log_offset
