-- What a version of a document says at length: bodies that are too long for the document's row, and
-- every version of a saved workflow. `json` is the document's row as it was in this version. Bodies
-- go with their document.
CREATE TABLE document_bodies (
    shard   INTEGER NOT NULL,
    kind    TEXT NOT NULL,
    key     TEXT NOT NULL,
    version INTEGER NOT NULL CHECK (version >= 1),
    json    TEXT NOT NULL CHECK (json_valid(json)),
    -- The last column, because it may be long.
    body    TEXT NOT NULL,
    PRIMARY KEY (shard, kind, key, version)
) STRICT, WITHOUT ROWID;

-- A call of a webhook knows a secret and no tenant. Its digest leads to the tenant through this
-- index, which changes in the transaction of the document itself.
CREATE INDEX documents_hook ON documents (key) WHERE kind = 'hook';

-- A tenant that never submitted anything may have notes or workflows and no shard.
INSERT INTO shards (id, tenant, epoch)
SELECT abs(random()) % 8388608, tenant, 1
  FROM (SELECT tenant FROM notes WHERE kind IN ('plan', 'action', 'hook')
        UNION
        SELECT tenant FROM workflows)
 WHERE tenant NOT IN (SELECT tenant FROM shards);

-- Plans, actions and webhooks were notes before. The hash of a plan is made when it is restored.
-- A note that cannot be read stays.
INSERT INTO documents (shard, kind, key, json)
SELECT shards.id, notes.kind, notes.key,
       json_object(
           'version', 1,
           'hash', '',
           'size', 0,
           'by', coalesce(json ->> '$.created_by', ''),
           'at_ms', json -> '$.created_ms',
           'head', CASE notes.kind
               WHEN 'plan' THEN json_object(
                   'description', json -> '$.plan.plan_description',
                   'task_count', json_array_length(json, '$.plan.tasks'))
               WHEN 'action' THEN json_object(
                   'plan_id', json -> '$.plan_id',
                   'jobs', json -> '$.jobs')
               ELSE json_object(
                   'hook_id', json -> '$.hook_id',
                   'name', json -> '$.name',
                   'workflow_id', json -> '$.workflow_id')
           END,
           'body', json -> '$.plan')
  FROM notes
  JOIN shards ON shards.tenant = notes.tenant
 WHERE json_type(json, '$.created_ms') = 'integer'
   AND (notes.kind = 'plan' AND json_type(json, '$.plan.tasks') = 'array'
     OR notes.kind = 'action' AND json_type(json, '$.plan_id') = 'text'
                              AND json_type(json, '$.jobs') = 'integer'
     OR notes.kind = 'hook' AND json_type(json, '$.hook_id') = 'text'
                            AND json_type(json, '$.workflow_id') = 'text');

DELETE FROM notes
 WHERE kind IN ('plan', 'action', 'hook')
   AND EXISTS (SELECT 1 FROM documents JOIN shards ON shards.id = documents.shard
                WHERE shards.tenant = notes.tenant
                  AND documents.kind = notes.kind AND documents.key = notes.key);

-- Workflows and their versions had tables of their own.
INSERT INTO document_bodies (shard, kind, key, version, json, body)
SELECT shards.id, 'workflow', versions.id, versions.version,
       json_object(
           'version', versions.version,
           'hash', versions.hash,
           'size', length(CAST(versions.definition AS BLOB)),
           'by', versions.author,
           'at_ms', versions.saved_at,
           'head', json_object('name', versions.name, 'comment', versions.comment)),
       versions.definition
  FROM workflow_versions AS versions
  JOIN shards ON shards.tenant = versions.tenant;

INSERT INTO documents (shard, kind, key, json)
SELECT bodies.shard, bodies.kind, bodies.key,
       json_set(bodies.json, '$.hidden_ms', workflows.deleted_at)
  FROM workflows
  JOIN shards ON shards.tenant = workflows.tenant
  JOIN document_bodies AS bodies
    ON bodies.shard = shards.id AND bodies.kind = 'workflow' AND bodies.key = workflows.id
   AND bodies.version = workflows.newest;

DROP TABLE workflow_versions;
DROP TABLE workflows;
