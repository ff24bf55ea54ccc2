SELECT tenant FROM shards UNION SELECT tenant FROM tokens ORDER BY tenant
