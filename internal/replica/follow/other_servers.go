package follow

import (
	"encoding/json"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace/millrace/internal/tier/cache"
)

// lookPeriod is how often the replica looks whether APIServices or the upstream's version have
// changed.
const lookPeriod = 200 * time.Millisecond

// otherServers tells which group versions the upstream proxies to other servers. An APIService
// with a service hands its group version over, also one of which there are definitions.
type otherServers struct {
	// services are the APIServices that the replica has. They are nil if the replica has
	// no APIServices.
	services *cache.Resource
	// newest is what the APIServices said at the last look. It is nil before the first look.
	newest atomic.Pointer[serverTable]
	// compared is what the APIServices said at the last call of changed, which alone uses it.
	compared *serverTable
}

// serverTable is what APIServices said at a revision. It is immutable.
type serverTable struct {
	revision int64
	// byVersion has the service of each group version that is handed over.
	byVersion map[schema.GroupVersion]string
}

// serve reports whether the upstream proxies a group version to another server.
func (o *otherServers) serve(gv schema.GroupVersion) bool { return o.table().byVersion[gv] != "" }

// table returns what APIServices say now.
func (o *otherServers) table() *serverTable {
	if o.services == nil {
		return &serverTable{}
	}
	last, revision := o.newest.Load(), o.services.LastChange()
	if last != nil && last.revision == revision {
		return last
	}
	snapshot := o.services.Snapshot()
	made := &serverTable{revision: revision, byVersion: map[schema.GroupVersion]string{}}
	for e := range snapshot.All("", "") {
		var service struct {
			Spec struct {
				Group   string          `json:"group"`
				Version string          `json:"version"`
				Service json.RawMessage `json:"service"`
			} `json:"spec"`
		}
		err := e.Read(func(value []byte) error { return json.Unmarshal(value, &service) })
		if err == nil && len(service.Spec.Service) > 0 && string(service.Spec.Service) != "null" {
			made.byVersion[schema.GroupVersion{Group: service.Spec.Group, Version: service.Spec.Version}] = string(service.Spec.Service)
		}
	}
	o.newest.Store(made)
	return made
}

// changed returns the group versions that another server answers for than at the last call.
func (o *otherServers) changed() (all []schema.GroupVersion) {
	before, newest := o.compared, o.table()
	if o.compared = newest; before == nil || before == newest {
		return nil
	}
	for gv, service := range before.byVersion {
		if newest.byVersion[gv] != service {
			all = append(all, gv)
		}
	}
	for gv := range newest.byVersion {
		if before.byVersion[gv] == "" {
			all = append(all, gv)
		}
	}
	return all
}
