// Package living reads through replicas while the world behind them changes: definitions are
// changed, deleted and made again, namespaces are deleted, objects are written. Clients get,
// list and watch through replicas of all feeds, and each answer is compared with what the
// upstream answered in that state of its world (package changingupstream).
//
//	stock server ─┬─ replica by the API ── replica of depth 2        Millrace ── replica by the API
//	              └─ replica by etcd
//
// What is checked of every answer:
//
//	objects   each is the upstream's at its resource version, in a state of its definition that
//	          overlapped with the request
//	lists     they are etcd's state at their resource version, which is as new as was asked for
//	watches   package watchcheck, and each event is the upstream's object
//	statuses  a version that is not served is 404, and one that is served is not; an error of
//	          the server is one that the upstream itself gives to such requests
//	silence   behind the last change each watch has got it or has ended, within 95 s
//	the end   each replica lists what the upstream lists
//
// A script is a seed. MILLRACE_LIVING_SCRIPTS says how many there are, and MILLRACE_SEED is the
// first one: `make living`.
package living

import (
	"testing"

	"github.com/millrace/millrace/test/support/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }
