package etcdfeed_test

import (
	"errors"
	"os"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/millrace/millrace/internal/feed"
	"github.com/millrace/millrace/internal/feed/etcdfeed"
	"github.com/millrace/millrace/internal/feed/etcdserver"
	"github.com/millrace/millrace/internal/feed/etcdserver/etcdtest"
	"github.com/millrace/millrace/internal/feed/feedtest"
)

// etcdSource is a feedtest.Source of feeds of an embedded etcd.
type etcdSource struct {
	cfg    etcdserver.Config
	etcd   *etcdserver.Etcd
	backup string
	// wires are the connections of feeds.
	wires []*wire
	// change alters the config of each feed.
	change func(*etcdfeed.FeedConfig)
}

func newEtcdSource(t *testing.T, change func(*etcdfeed.FeedConfig)) *etcdSource {
	s := &etcdSource{cfg: etcdtest.Config(t), change: change}
	s.etcd = etcdtest.Open(t, s.cfg)
	t.Cleanup(func() { s.etcd.Close() })
	return s
}

func (s *etcdSource) client() *clientv3.Client { return s.etcd.Client().Client }

// Feed implements feedtest.Source.
func (s *etcdSource) Feed(t *testing.T, sink feed.Sink) feed.Feed {
	w := newWire(t, s.etcd)
	s.wires = append(s.wires, w)
	cfg := etcdfeed.FeedConfig{Client: w.client, Prefix: "/registry/", Sink: sink, Logger: quiet(), WatchStreams: &w.streams}
	s.change(&cfg)
	return etcdfeed.NewFeed(cfg)
}

// Put implements feedtest.Source.
func (s *etcdSource) Put(t *testing.T, name, text string) int64 {
	return put(t, s.client(), s.Key(name), text)
}

// Delete implements feedtest.Source.
func (s *etcdSource) Delete(t *testing.T, name string) int64 {
	return remove(t, s.client(), s.Key(name))
}

// PutElsewhere implements feedtest.Source.
func (s *etcdSource) PutElsewhere(t *testing.T) int64 {
	return put(t, s.client(), "/other/a", "1")
}

// Break implements feedtest.Source.
func (s *etcdSource) Break(*testing.T) {
	for _, w := range s.wires {
		w.cut()
	}
}

// Mend implements feedtest.Source.
func (s *etcdSource) Mend(*testing.T) {
	for _, w := range s.wires {
		w.restore()
	}
}

// Forget implements feedtest.Source.
func (s *etcdSource) Forget(t *testing.T) {
	newest, err := etcdfeed.Revision(t.Context(), s.client(), "/registry/")
	if err != nil {
		t.Fatal(err)
	}
	compact(t, s.client(), newest)
}

// Backup implements feedtest.Source. Feeds are not connected.
func (s *etcdSource) Backup(t *testing.T) {
	s.etcd.Close()
	s.backup = t.TempDir()
	if err := os.CopyFS(s.backup, os.DirFS(s.cfg.DataDir)); err != nil {
		t.Fatal(err)
	}
	s.etcd = etcdtest.Open(t, s.cfg)
}

// Restore implements feedtest.Source.
func (s *etcdSource) Restore(t *testing.T) {
	s.etcd.Close()
	if err := errors.Join(os.RemoveAll(s.cfg.DataDir), os.CopyFS(s.cfg.DataDir, os.DirFS(s.backup))); err != nil {
		t.Fatal(err)
	}
	s.etcd = etcdtest.Open(t, s.cfg)
}

// Key implements feedtest.Source.
func (*etcdSource) Key(name string) string { return "/registry/things/" + name }

// Value implements feedtest.Source.
func (*etcdSource) Value(w feedtest.Write) string { return w.Text }

// TestContract checks feeds that replay history, and feeds that load the newest revision.
func TestContract(t *testing.T) {
	t.Parallel()
	for name, history := range map[string]int64{"history": 0, "newest": -1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			feedtest.Run(t, func(t *testing.T) feedtest.Source {
				return newEtcdSource(t, func(cfg *etcdfeed.FeedConfig) {
					// Etcd answers a request for progress each second.
					cfg.HistoryRevisions, cfg.MaxSilence = history, 3*time.Second
				})
			})
		})
	}
}
