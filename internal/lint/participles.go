package lint

import "strings"

// participleTypes returns the exceptions of the rule for type names. A type leaves the
// list when it is renamed; no type may be added.
func participleTypes() Exceptions {
	types := Exceptions{}
	for key := range strings.FieldsSeq(participleTypeKeys) {
		types[key] = "older than the rule, to be renamed with its package"
	}
	return types
}

// participleTypeKeys are the keys of the exceptions, one in a line.
const participleTypeKeys = `
internal/bench/crd_run.go:discovered
internal/bench/measuring.go:saved
internal/bench/measuring.go:measuring
internal/bench/render_sections.go:titled
internal/cache/index.go:learning
internal/cache/want.go:wanted
internal/crd/catalog_test.go:heard
internal/crd/controller.go:known
internal/crd/conversion_review.go:reviewed
internal/crd/finalize.go:ending
internal/crd/lazy.go:negotiated
internal/crd/outline_test.go:seeing
internal/crd/remainder_test.go:counting
internal/crd/served.go:served
internal/crd/server.go:kept
internal/crd/shelf.go:shelved
internal/crd/writing.go:writing
internal/dashboard/source.go:shared
internal/discovery/documents.go:dated
internal/discovery/form.go:negotiated
internal/discovery/resources.go:served
internal/encode/ahead.go:coming
internal/encode/flight.go:flown
internal/encode/packed.go:coding
internal/encode/stream_test.go:arrived
internal/encode/stream_test.go:failing
internal/fill/api_remove.go:listed
internal/fill/etcd_remove.go:stored
internal/h1/stream_test.go:served
internal/h1/stream_test.go:logged
internal/h2/closed_test.go:closing
internal/h2/pull_test.go:pulling
internal/h2/sent_test.go:told
internal/h2/sent_test.go:sent
internal/h2/sent_test.go:telling
internal/h2/setup_test.go:served
internal/h2/stream.go:incoming
internal/h2/stream.go:outgoing
internal/kube/authn_cache.go:verified
internal/kube/authn_cache_test.go:counted
internal/kube/handlers.go:untraced
internal/kube/openapi_test.go:fixed
internal/kube/quota_test.go:refusing
internal/kube/rows_test.go:printed
internal/kube/server.go:decorated
internal/kube/watch_chain_test.go:unlimited
internal/openapi/cache_test.go:counting
internal/openapi/fragments.go:kept
internal/openapi/fragments.go:making
internal/openapi/fragments.go:wanted
internal/openapi/generated_test.go:drawing
internal/openapi/server.go:dated
internal/openapi/split.go:occupied
internal/openapi/view.go:summing
internal/pull/conn_unix.go:held
internal/pull/stuck_test.go:panicking
internal/pull/workers_test.go:informing
internal/read/account.go:passing
internal/read/ending.go:ending
internal/read/request.go:passed
internal/read/respond.go:paced
internal/read/tier_test.go:gone
internal/read/watch.go:watching
internal/read/watch_account.go:measured
internal/read/watch_account_test.go:accounted
internal/read/watch_account_test.go:counting
internal/read/watch_pull.go:pulled
internal/read/watch_test.go:watched
internal/slo/advice.go:asked
internal/slo/gather.go:gathered
internal/slo/probe.go:written
internal/slo/sender.go:given
internal/slo/slo.go:seen
internal/slo/storm.go:gathering
internal/store/embedded.go:Embedded
internal/store/feed_history_test.go:compacting
internal/store/feed_test.go:counting
internal/store/load.go:asked
internal/top/screen.go:fetched
internal/watch/subscription.go:meaning
test/attacks/attacker_test.go:done
test/crds/converted_test.go:converted
test/crds/converted_test.go:watching
test/crds/seen_test.go:tampering
test/differential/compacted_test.go:gone
test/differential/watch_test.go:running
test/history/split.go:beginning
test/informers/calls_test.go:counting
test/informers/runtime_cache_test.go:held
test/slo/sums_test.go:received
test/slo/sums_test.go:counting
test/slo/sums_test.go:summed
`
