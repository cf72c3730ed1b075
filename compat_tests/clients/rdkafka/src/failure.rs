//! What went wrong, as the number of Kafka's error code.
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use serde_json::{json, Value};

const UNSUPPORTED: i32 = -100;
const UNKNOWN: i32 = -1;
const PRODUCER_FENCED: i32 = 90;

/// A broker's refusal, or what the library says.
pub struct Failure {
    pub code: i32,
    message: String,
}

impl Failure {
    pub fn told(&self) -> Value {
        json!({ "code": self.code, "message": self.message })
    }
}

impl From<RDKafkaErrorCode> for Failure {
    fn from(code: RDKafkaErrorCode) -> Self {
        let number = if code == RDKafkaErrorCode::Fenced { PRODUCER_FENCED } else { code as i32 };
        Failure { code: number, message: code.to_string() }
    }
}

impl From<KafkaError> for Failure {
    fn from(error: KafkaError) -> Self {
        let code = match &error {
            KafkaError::AdminOp(code) => Some(*code),
            other => other.rdkafka_error_code(),
        };
        let number = code.map_or(UNKNOWN, |code| Failure::from(code).code);
        Failure { code: number, message: error.to_string() }
    }
}

pub fn unsupported(what: &str) -> Failure {
    Failure { code: UNSUPPORTED, message: what.to_owned() }
}

pub fn broken(what: impl ToString) -> Failure {
    Failure { code: UNKNOWN, message: what.to_string() }
}
