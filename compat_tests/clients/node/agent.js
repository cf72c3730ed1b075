// kafkajs, asked through the agent's questions.
'use strict'

const { Kafka, logLevel, CompressionCodecs, CompressionTypes, ConfigResourceTypes, Partitioners } = require('kafkajs')
const readline = require('node:readline')

const TIMEOUT_MS = 40000
const APPEND_TIME = 1
const UNSUPPORTED = -100
const LOAD_PARTITIONS = 2
const LOAD_PAUSE_MS = 40
const LOAD_BATCH = 5
const members = []
const loads = []
const QUICK = { initialRetryTime: 50, retries: 5 }
// What outlives a broker: the library's retries are nested, and the innermost that gives up ends them all.
const PATIENT = { initialRetryTime: 100, maxRetryTime: 500, retries: 200 }
// The library has gzip alone; others come through its door for them, from packages that its users take. Of those for
// zstd none builds on a Node of today, so this is a binding of zstd itself.
const CODECS = {
  none: CompressionTypes.None,
  gzip: CompressionTypes.GZIP,
  snappy: CompressionTypes.Snappy,
  lz4: CompressionTypes.LZ4,
  zstd: CompressionTypes.ZSTD,
}
CompressionCodecs[CompressionTypes.Snappy] = () => require('kafkajs-snappy')()
CompressionCodecs[CompressionTypes.LZ4] = () => new (require('@2l/kafkajs-lz4'))().codec()
CompressionCodecs[CompressionTypes.ZSTD] = () => {
  const zstd = require('@mongodb-js/zstd')
  return { compress: (encoder) => zstd.compress(encoder.buffer), decompress: zstd.decompress }
}
let kafka
let patient

const clientOf = ({ bootstrap, settings }, retry) =>
  new Kafka({ clientId: 'kafkajs', brokers: bootstrap.split(','), logLevel: logLevel.NOTHING, retry, ...settings })

const unpacked = (text) => (text === null || text === undefined ? null : Buffer.from(text, 'base64'))
const packed = (bytes) => (bytes === null || bytes === undefined ? null : Buffer.from(bytes).toString('base64'))

async function withClient(client, use) {
  await client.connect()
  try {
    return await use(client)
  } finally {
    await client.disconnect()
  }
}
const withAdmin = (use) => withClient(kafka.admin(), use)

function headersOf(pairs) {
  const headers = {}
  for (const [name, value] of pairs) {
    const known = headers[name]
    headers[name] = known === undefined ? unpacked(value) : [].concat(known, unpacked(value))
  }
  return headers
}

function received(partition, message) {
  const headers = []
  for (const [name, values] of Object.entries(message.headers)) {
    for (const value of [].concat(values)) headers.push([name, packed(value)])
  }
  return {
    value: packed(message.value),
    key: packed(message.key),
    headers,
    timestamp: Number(message.timestamp),
    partition,
    offset: Number(message.offset),
    append_time: message.batchContext.timestampType === APPEND_TIME,
  }
}

async function produce({ topic, records, codec, idempotent, acks }) {
  const producer = kafka.producer({
    idempotent,
    maxInFlightRequests: idempotent ? 1 : null,
    createPartitioner:
      records[0].partition === null ? Partitioners.DefaultPartitioner : () => ({ message }) => message.partition,
  })
  const compression = CODECS[codec]
  const messages = records.map((record) => ({
    value: unpacked(record.value),
    key: unpacked(record.key),
    headers: headersOf(record.headers),
    timestamp: record.timestamp === null ? undefined : String(record.timestamp),
    partition: record.partition ?? undefined,
  }))
  if (records[0].partition === null) return produceOneByOne(producer, topic, messages)
  const answers = await withClient(producer, () => producer.send({ topic, acks, compression, messages }))
  const next = new Map(answers.map((answer) => [answer.partition, Number(answer.baseOffset)]))
  return messages.map(({ partition }) => {
    const offset = next.has(partition) ? next.get(partition) : -1
    next.set(partition, offset + 1)
    return [partition, offset]
  })
}

// The answer to several records names partitions alone; which record went to which is told for one at a time.
const produceOneByOne = (producer, topic, messages) =>
  withClient(producer, async () => {
    const places = []
    for (const message of messages) {
      const [{ partition, baseOffset }] = await producer.send({ topic, messages: [message] })
      places.push([partition, Number(baseOffset)])
    }
    return places
  })

const transactional = (transactionalId) =>
  kafka.producer({
    transactionalId,
    idempotent: true,
    maxInFlightRequests: 1,
    createPartitioner: Partitioners.DefaultPartitioner,
  })

async function fence({ topic, transactional_id: transactionalId }) {
  const [first, second] = [transactional(transactionalId), transactional(transactionalId)]
  return withClient(first, async () => {
    const old = await first.transaction()
    await old.send({ topic, messages: [{ value: 'old', partition: 0 }] })
    return withClient(second, async () => {
      const young = await second.transaction()
      await young.send({ topic, messages: [{ value: 'new', partition: 0 }] })
      await young.commit()
      return old.commit().then(
        () => {
          throw new Error('the first producer was not fenced')
        },
        (refusal) => codeOf(refusal)
      )
    })
  })
}

async function startLoad({ topic }) {
  const producer = patient.producer({
    idempotent: true,
    maxInFlightRequests: 1,
    createPartitioner: () => ({ message }) => message.partition,
  })
  await producer.connect()
  const load = { places: [], failures: [], finishing: false, ended: null }
  const run = async () => {
    for (let number = 0; !load.finishing; number += LOAD_BATCH) {
      const numbers = Array.from({ length: LOAD_BATCH }, (_, index) => number + index)
      const messages = numbers.map((each) => ({ value: String(each), partition: each % LOAD_PARTITIONS }))
      const answers = await producer.send({ topic, acks: -1, messages })
      const next = new Map(answers.map((answer) => [answer.partition, Number(answer.baseOffset)]))
      for (const each of numbers) {
        const partition = each % LOAD_PARTITIONS
        load.places.push([each, partition, next.get(partition)])
        next.set(partition, next.get(partition) + 1)
      }
      await new Promise((resolve) => setTimeout(resolve, LOAD_PAUSE_MS))
    }
  }
  load.ended = run()
    .catch((error) => load.failures.push(String(error)))
    .finally(() => producer.disconnect())
  return loads.push(load) - 1
}

async function finishLoad({ load: number }) {
  const load = loads[number]
  load.finishing = true
  await load.ended
  return { places: load.places, failures: load.failures }
}

async function transact({ topic, transactional_id: transactionalId, transactions }) {
  const producer = transactional(transactionalId)
  await withClient(producer, async () => {
    for (const { values, commit, group, offset } of transactions) {
      const transaction = await producer.transaction()
      await transaction.send({ topic, messages: values.map((value) => ({ value: unpacked(value), partition: 0 })) })
      if (group !== null) {
        const partitions = [{ partition: 0, offset: String(offset) }]
        await transaction.sendOffsets({ consumerGroupId: group, topics: [{ topic, partitions }] })
      }
      await (commit ? transaction.commit() : transaction.abort())
    }
  })
}

// kafkajs reads through groups alone: a group of its own for each reading.
async function consume({ topic, partition, offset, count, committed }) {
  if (count === 0) return []
  const groupId = `reader-${process.pid}-${consume.readings++}`
  const start = offset >= 0 ? offset : (await watermarks({ topic, partition }))[offset === -2 ? 0 : 1]
  const consumer = kafka.consumer({ groupId, readUncommitted: !committed, maxWaitTimeInMs: 100 })
  const found = []
  return withClient(consumer, async () => {
    await consumer.subscribe({ topics: [topic], fromBeginning: true })
    await new Promise((resolve, reject) => {
      setTimeout(resolve, TIMEOUT_MS).unref()
      const eachMessage = async ({ partition: place, message }) => {
        if (place === partition && found.length < count) found.push(received(place, message))
        if (found.length >= count) resolve()
      }
      consumer.on(consumer.events.CRASH, ({ payload }) => reject(payload.error))
      consumer.run({ autoCommit: false, eachMessage }).catch(reject)
      consumer.seek({ topic, partition, offset: String(start) })
    })
    return found
  })
}
consume.readings = 0

async function watermarks({ topic, partition }) {
  const offsets = await withAdmin((admin) => admin.fetchTopicOffsets(topic))
  const place = offsets.find((each) => each.partition === partition)
  return [Number(place.low), Number(place.high)]
}

// An answer of the log's end means that nothing is that young.
async function offsetForTime({ topic, timestamp, partition }) {
  const offsets = await withAdmin((admin) => admin.fetchTopicOffsetsByTimestamp(topic, timestamp))
  const found = Number(offsets.find((each) => each.partition === partition).offset)
  const [, end] = await watermarks({ topic, partition })
  return found === end ? null : found
}

// The library commits for members alone: become one for a moment.
async function commit({ group, topic, offsets }) {
  const consumer = kafka.consumer({ groupId: group, maxWaitTimeInMs: 100 })
  await withClient(consumer, async () => {
    await consumer.subscribe({ topics: [topic] })
    const joined = new Promise((resolve) => consumer.on(consumer.events.GROUP_JOIN, resolve))
    await consumer.run({ autoCommit: false, eachMessage: async () => {} })
    await joined
    await consumer.commitOffsets(offsets.map(([partition, offset]) => ({ topic, partition, offset: String(offset) })))
  })
}

async function committed({ group, topic, partition }) {
  const [found] = await withAdmin((admin) => admin.fetchOffsets({ groupId: group, topics: [topic] }))
  const place = found.partitions.find((each) => each.partition === partition)
  return place === undefined || Number(place.offset) < 0 ? null : Number(place.offset)
}

async function join({ group, topic, reset }) {
  if (reset === 'none') throw Object.assign(new Error('kafkajs always begins somewhere'), { code: UNSUPPORTED })
  const consumer = patient.consumer({ groupId: group, sessionTimeout: 10000, heartbeatInterval: 500, maxWaitTimeInMs: 100 })
  const member = { consumer, topic, assignment: [], received: [], next: new Map(), error: null }
  consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
    member.assignment = payload.memberAssignment[topic] || []
  })
  consumer.on(consumer.events.CRASH, ({ payload }) => {
    if (!payload.restart) member.error = payload.error
  })
  await consumer.connect()
  await consumer.subscribe({ topics: [topic], fromBeginning: reset === 'earliest' })
  const eachMessage = async ({ partition, message }) => {
    member.received.push(received(partition, message))
    member.next.set(partition, String(Number(message.offset) + 1))
  }
  await consumer.run({ autoCommit: false, eachMessage })
  return members.push(member) - 1
}

function poll({ member: number }) {
  const member = members[number]
  if (member.error !== null) throw member.error
  return { assignment: member.assignment, received: member.received.splice(0) }
}

async function commitMember({ member: number }) {
  const { consumer, topic, next } = members[number]
  await consumer.commitOffsets([...next].map(([partition, offset]) => ({ topic, partition, offset })))
}

async function describeGroup({ group }) {
  const { groups } = await withAdmin((admin) => admin.describeGroups([group]))
  return [groups[0].state, groups[0].protocolType, groups[0].members.length]
}

const configResource = (topic) => ({ type: ConfigResourceTypes.TOPIC, name: topic })
const ANSWERS = {
  produce,
  transact,
  fence,
  start_load: startLoad,
  load_state: ({ load }) => loads[load].places.length,
  finish_load: finishLoad,
  consume,
  watermarks,
  offset_for_time: offsetForTime,
  committed,
  join,
  poll,
  commit_member: commitMember,
  leave: ({ member }) => members[member].consumer.disconnect(),
  describe_group: describeGroup,
  commit,
  create_topic: ({ topic, partitions, configs }) =>
    withAdmin((admin) =>
      admin.createTopics({
        waitForLeaders: false,
        topics: [
          {
            topic,
            numPartitions: partitions,
            replicationFactor: -1,
            configEntries: Object.entries(configs).map(([name, value]) => ({ name, value })),
          },
        ],
      })
    ).then((created) => {
      // kafkajs tells "already exists" by its answer instead of an error.
      if (!created) throw Object.assign(new Error('TOPIC_ALREADY_EXISTS'), { code: 36 })
    }),
  delete_topic: ({ topic }) => withAdmin((admin) => admin.deleteTopics({ topics: [topic] })),
  topics: async () => {
    const { topics } = await withAdmin((admin) => admin.fetchTopicMetadata())
    return Object.fromEntries(topics.map((topic) => [topic.name, topic.partitions.length]))
  },
  add_partitions: ({ topic, total }) =>
    withAdmin((admin) => admin.createPartitions({ topicPartitions: [{ topic, count: total }] })),
  configs: async ({ topic }) => {
    const { resources } = await withAdmin((admin) =>
      admin.describeConfigs({ includeSynonyms: false, resources: [configResource(topic)] })
    )
    return Object.fromEntries(resources[0].configEntries.map((entry) => [entry.configName, entry.configValue]))
  },
  set_config: ({ topic, key, value }) =>
    withAdmin((admin) =>
      admin.alterConfigs({ resources: [{ ...configResource(topic), configEntries: [{ name: key, value }] }] })
    ),
  delete_records: ({ topic, before }) =>
    withAdmin(async (admin) => {
      await admin.fetchTopicOffsets(topic) // makes the library learn where the topic is
      await admin.deleteTopicRecords({ topic, partitions: [{ partition: 0, offset: String(before) }] })
      return Number((await admin.fetchTopicOffsets(topic))[0].low)
    }),
  delete_group: ({ group }) => withAdmin((admin) => admin.deleteGroups([group])),
  groups: async () => (await withAdmin((admin) => admin.listGroups())).groups.map((group) => group.groupId),
}

// kafkajs wraps refusals: the code is on the error itself, on its cause, or on what an aggregate collects.
function codeOf(error) {
  if (!error) return -1
  if (Number.isInteger(error.code)) return error.code
  const inner = [
    error.cause,
    error.originalError,
    error.error,
    ...(error.errors || []),
    ...(error.partitions || []),
    ...(error.groups || []),
  ]
  return inner.map(codeOf).find((code) => code !== -1) ?? -1
}

async function main() {
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const question = JSON.parse(line)
    kafka = clientOf(question, QUICK)
    patient = clientOf(question, PATIENT)
    let reply
    try {
      reply = { result: (await ANSWERS[question.do](question)) ?? null }
    } catch (error) {
      reply = { error: { code: codeOf(error), message: `${error.name}: ${error.message}` } }
    }
    process.stdout.write(`${JSON.stringify(reply)}\n`)
  }
  process.exit(0)
}

main()
