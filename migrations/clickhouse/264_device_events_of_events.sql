create materialized view if not exists device_events_of_events to device_events as
select client_id, did, ts, event_id, t = 'click' as is_click
from events
where t = 'click' or custom_name = 'identity_unlinked'
  or (t not in ('page_view', 'view_product', 'add_to_cart', 'begin_checkout', 'form_start')
    and multiSearchAny(props, ['"email":', '"user_id":', '"login_id":']))
