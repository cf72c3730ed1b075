//! The settings that kafkapy's client_settings gives to rskafka.
use std::sync::Arc;

use rskafka::client::{Credentials, OauthBearerCredentials, SaslConfig};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use serde_json::Value;

use crate::failure::{broken, Failure};
use crate::text;

pub fn tls(settings: &Value) -> Result<Option<Arc<ClientConfig>>, Failure> {
    let tls = &settings["tls"];
    if tls.is_null() {
        return Ok(None);
    }
    let mut roots = RootCertStore::empty();
    for each in certificates(tls, "ca")? {
        roots.add(each).map_err(broken)?;
    }
    let config = ClientConfig::builder().with_root_certificates(roots);
    Ok(Some(Arc::new(if tls["key"].is_null() {
        config.with_no_client_auth()
    } else {
        let key = PrivateKeyDer::from_pem_slice(text(tls, "key").as_bytes()).map_err(broken)?;
        config.with_client_auth_cert(certificates(tls, "certificate")?, key).map_err(broken)?
    })))
}

fn certificates(tls: &Value, name: &str) -> Result<Vec<CertificateDer<'static>>, Failure> {
    CertificateDer::pem_slice_iter(text(tls, name).as_bytes()).collect::<Result<_, _>>().map_err(broken)
}

pub fn sasl(settings: &Value) -> Option<SaslConfig> {
    let sasl = &settings["sasl"];
    let password = || Credentials::new(text(sasl, "username"), text(sasl, "password"));
    match sasl["mechanism"].as_str()? {
        "PLAIN" => Some(SaslConfig::Plain(password())),
        "SCRAM-SHA-256" => Some(SaslConfig::ScramSha256(password())),
        "SCRAM-SHA-512" => Some(SaslConfig::ScramSha512(password())),
        _ => {
            let token = text(sasl, "token");
            let callback = Arc::new(move || {
                let token = token.clone();
                Box::pin(async move { Ok(token) }) as _
            });
            Some(SaslConfig::Oauthbearer(OauthBearerCredentials { callback, authz_id: None, bearer_kvs: vec![] }))
        }
    }
}
