package storage

import (
	"strconv"
	"time"

	cachermetrics "k8s.io/apiserver/pkg/storage/cacher/metrics"
)

// confirmed counts a consistent read under the names that Kubernetes' watch cache
// has. None falls back to etcd.
func (s *Store) confirmed(began time.Time, err error) {
	gr := s.cfg.Resource.GroupResource()
	cachermetrics.WatchCacheReadWait.WithLabelValues(gr.Group, gr.Resource).Observe(time.Since(began).Seconds())
	cachermetrics.ConsistentReadTotal.WithLabelValues(gr.Group, gr.Resource, strconv.FormatBool(err == nil), "false").Inc()
}
