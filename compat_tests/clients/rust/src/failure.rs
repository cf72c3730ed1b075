//! What went wrong, as the number of Kafka's error code.
use rskafka::client::error::{Error, ProtocolError};
use serde_json::{json, Value};

const UNSUPPORTED: i64 = -100;
const UNKNOWN: i64 = -1;

/// A broker's refusal, or what the library can not do.
pub struct Failure {
    code: i64,
    message: String,
}

impl Failure {
    pub fn told(&self) -> Value {
        json!({ "code": self.code, "message": self.message })
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let code = match &error {
            Error::ServerError { protocol_error, .. } => code(*protocol_error),
            _ => UNKNOWN,
        };
        Failure { code, message: error.to_string() }
    }
}

/// The library keeps its table of numbers to itself; these are the ones that scenarios ask for.
fn code(error: ProtocolError) -> i64 {
    match error {
        ProtocolError::OffsetOutOfRange => 1,
        ProtocolError::UnknownTopicOrPartition => 3,
        ProtocolError::MessageTooLarge => 10,
        ProtocolError::InvalidTopicException => 17,
        ProtocolError::TopicAlreadyExists => 36,
        ProtocolError::InvalidPartitions => 37,
        ProtocolError::Unknown(number) => number.into(),
        _ => UNKNOWN,
    }
}

pub fn unsupported(what: &str) -> Failure {
    Failure { code: UNSUPPORTED, message: what.to_owned() }
}

pub fn broken(what: impl ToString) -> Failure {
    Failure { code: UNKNOWN, message: what.to_string() }
}
