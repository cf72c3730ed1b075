"""The quotas of a broker's clients: made when there is the first one, and changed with the configuration."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from kafkapy.metadata.znodes import ConfigEntity
from kafkapy.server.dispatch.context import Services

if TYPE_CHECKING:
    from kafkapy.quotas.clients import ClientQuotas

_UNLIMITED: Final = 2**63 - 1


def apply_quotas(services: Services) -> None:
    """Have the request path apply the quotas that are set now and later."""
    config = services.config
    if config.integer("quota.producer.default") < _UNLIMITED or config.integer("quota.consumer.default") < _UNLIMITED:
        services.quotas = _new_quotas(services)

    def clients_changed(entity: ConfigEntity, overrides: Mapping[str, str]) -> None:
        if services.quotas is None:
            if not overrides:
                return
            from kafkapy.quotas.limits import QuotaKind

            if not any(kind in overrides for kind in QuotaKind):
                return  # credentials alone
            services.quotas = _new_quotas(services)
        from kafkapy.quotas.limits import QuotaEntity

        services.quotas.set(QuotaEntity(*entity.client_names), overrides)

    services.config_admin.set_client_listener(clients_changed)


def _new_quotas(services: Services) -> "ClientQuotas":
    from kafkapy.quotas.clients import ClientQuotas, Windows
    from kafkapy.quotas.limits import QuotaKind

    config = services.config
    windows = Windows(config.integer("quota.window.num"), config.integer("quota.window.size.seconds"))
    mutation_windows = Windows(
        config.integer("controller.quota.window.num"), config.integer("controller.quota.window.size.seconds")
    )
    defaults = {
        kind: float(config.integer(key))
        for kind, key in {
            QuotaKind.PRODUCE: "quota.producer.default",
            QuotaKind.FETCH: "quota.consumer.default",
        }.items()
        if config.integer(key) < _UNLIMITED
    }
    return ClientQuotas(services.clock, windows, mutation_windows, defaults)
