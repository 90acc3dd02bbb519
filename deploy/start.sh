#!/bin/sh
# The entry point of the image: index the folder it is in (/notes), make a token at the first start, then run memwell.
set -eu
if [ "${1:-}" = serve ]; then
    memwell index . --no-embed || true # the server embeds; an empty folder does not stop it
    if [ -z "$(memwell serve token list)" ]; then
        echo "The token of this server, shown this one time:"
        memwell serve token add first --rights admin
    fi
fi
exec memwell "$@"
