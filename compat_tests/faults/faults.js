// A broker that says twice that another one leads, and then keeps records for an hour that is over at once.
'use strict'

const assert = require('node:assert')
const { spawn } = require('node:child_process')
const readline = require('node:readline')
const { Kafka } = require('kafkajs')

async function main() {
  const options = ['start', '--ephemeral', '--print-bootstrap', '--control-port', '0', 'log.retention.ms=3600000']
  const broker = spawn('kafkapy', options, { stdio: ['ignore', 'pipe', 'inherit'] })
  const lines = readline.createInterface({ input: broker.stdout })[Symbol.asyncIterator]()
  const bootstrap = (await lines.next()).value
  const control = (await lines.next()).value

  async function ask(method, path, body) {
    const headers = { 'Content-Type': 'application/json' }
    const answer = await fetch(control + path, { method, headers, body: body && JSON.stringify(body) })
    const told = await answer.json()
    assert(answer.ok, told.error)
    return told
  }

  const kafka = new Kafka({ brokers: [bootstrap] })
  const producer = kafka.producer()
  const admin = kafka.admin()
  try {
    const { id } = await ask('POST', '/faults', {
      action: 'error', error: 'NOT_LEADER_OR_FOLLOWER', api: 'Produce', count: 2,
    })
    await producer.connect()
    await producer.send({ topic: 'orders', messages: [{ value: 'first' }] })
    assert.strictEqual((await ask('GET', `/faults/${id}`)).fired, 2)
    console.log('ok: the producer has tried again')

    await admin.connect()
    const start = async () => (await admin.fetchTopicOffsets('orders'))[0].low
    assert.strictEqual(await start(), '0')
    console.log('ok: the record is there')
    await ask('POST', '/clock/advance', { duration_ms: 7200000 })
    assert.strictEqual(await start(), '1')
    console.log('ok: its hour is over')
  } finally {
    await producer.disconnect()
    await admin.disconnect()
    broker.kill()
  }
}

main().catch((error) => {
  console.error(error)
  process.exitCode = 1
})
