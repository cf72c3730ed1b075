//! Records there and back.
use std::collections::BTreeMap;
use std::time::Instant;

use base64::engine::general_purpose::STANDARD;
use base64::Engine;
use chrono::{DateTime, TimeZone, Utc};
use rskafka::client::partition::{Compression, OffsetAt};
use rskafka::record::{Record, RecordAndOffset};
use serde_json::{json, Value};

use crate::failure::{broken, unsupported, Failure};
use crate::{number, partition, text, TIMEOUT};

const EARLIEST: i64 = -2;
const MAX_WAIT_MS: i32 = 100;
const MAX_BYTES: i32 = 10_000_000;

pub fn time(timestamp_ms: i64) -> Result<DateTime<Utc>, Failure> {
    Utc.timestamp_millis_opt(timestamp_ms).single().ok_or_else(|| broken("no such time"))
}

fn unpacked(value: &Value) -> Result<Option<Vec<u8>>, Failure> {
    value.as_str().map(|packed| STANDARD.decode(packed).map_err(broken)).transpose()
}

fn packed(bytes: &Option<Vec<u8>>) -> Value {
    bytes.as_ref().map_or(Value::Null, |bytes| json!(STANDARD.encode(bytes)))
}

fn record(sent: &Value) -> Result<Record, Failure> {
    let mut headers = BTreeMap::new();
    for pair in sent["headers"].as_array().into_iter().flatten() {
        let name = pair[0].as_str().unwrap_or_default().to_owned();
        let value = unpacked(&pair[1])?.ok_or_else(|| unsupported("rskafka has no null headers"))?;
        if headers.insert(name, value).is_some() {
            return Err(unsupported("rskafka has each header once, in the order of their names"));
        }
    }
    let timestamp = sent["timestamp"].as_i64().map_or_else(|| Ok(Utc::now()), time)?;
    Ok(Record { key: unpacked(&sent["key"])?, value: unpacked(&sent["value"])?, headers, timestamp })
}

fn compression(codec: &str) -> Compression {
    match codec {
        "gzip" => Compression::Gzip,
        "lz4" => Compression::Lz4,
        "snappy" => Compression::Snappy,
        "zstd" => Compression::Zstd,
        _ => Compression::NoCompression,
    }
}

pub async fn produce(question: &Value) -> Result<Value, Failure> {
    if question["idempotent"] == json!(true) || number(question, "acks") != -1 {
        return Err(unsupported("rskafka's producer is not idempotent and waits for all acknowledgements"));
    }
    let mut batches: BTreeMap<i32, (Vec<usize>, Vec<Record>)> = BTreeMap::new();
    let sent = question["records"].as_array().ok_or_else(|| broken("no records"))?;
    for (place, each) in sent.iter().enumerate() {
        let partition = each["partition"].as_i64().ok_or_else(|| unsupported("rskafka has no partitioner"))?;
        let (places, records) = batches.entry(partition as i32).or_default();
        places.push(place);
        records.push(record(each)?);
    }
    let mut answers = vec![Value::Null; sent.len()];
    for (number, (places, records)) in batches {
        let client = partition(question, number).await?;
        let offsets = client.produce(records, compression(&text(question, "codec"))).await?;
        for (place, offset) in places.into_iter().zip(offsets) {
            answers[place] = json!([number, offset]);
        }
    }
    Ok(json!(answers))
}

fn received(found: RecordAndOffset, partition: i32) -> Value {
    let RecordAndOffset { record, offset } = found;
    let headers: Vec<_> = record.headers.into_iter().map(|(name, value)| json!([name, packed(&Some(value))])).collect();
    json!({
        "value": packed(&record.value), "key": packed(&record.key), "headers": headers, "offset": offset,
        "timestamp": record.timestamp.timestamp_millis(), "partition": partition, "append_time": false,
    })
}

pub async fn consume(question: &Value) -> Result<Value, Failure> {
    if question["committed"] == json!(true) {
        return Err(unsupported("rskafka reads uncommitted records alone"));
    }
    let place = number(question, "partition") as i32;
    let client = partition(question, place).await?;
    let mut next = match number(question, "offset") {
        EARLIEST => client.get_offset(OffsetAt::Earliest).await?,
        wanted if wanted < 0 => client.get_offset(OffsetAt::Latest).await?,
        wanted => wanted,
    };
    let count = number(question, "count") as usize;
    let mut found = vec![];
    let started = Instant::now();
    while found.len() < count && started.elapsed() < TIMEOUT {
        let (records, _) = client.fetch_records(next, 1..MAX_BYTES, MAX_WAIT_MS).await?;
        for each in records.into_iter().filter(|each| each.offset >= next).collect::<Vec<_>>() {
            next = each.offset + 1;
            found.push(received(each, place));
        }
    }
    found.truncate(count);
    Ok(json!(found))
}
