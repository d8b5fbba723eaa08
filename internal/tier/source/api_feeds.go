package source

import (
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-aggregator/pkg/apis/apiregistration"

	"github.com/millrace/millrace/internal/tier/storage"
)

// ProtobufBackend is a storage.Decorator.Protobuf.
func (s *API) ProtobufBackend(gr schema.GroupResource) *storage.Backend {
	if !HasProtobuf(gr) {
		return nil
	}
	return s.open(FeedKey{gr, true})
}

// VerbatimFeed returns the feed of a backend that is open.
func (s *API) VerbatimFeed(key FeedKey) *ResourceFeed {
	s.mu.Lock()
	defer s.mu.Unlock()
	opened := s.mu.byResource[key]
	if opened == nil {
		return nil
	}
	feed, _ := opened.Feed.(*ResourceFeed)
	return feed
}

// HasProtobuf reports whether the kinds of a group are sent in protobuf.
func HasProtobuf(gr schema.GroupResource) bool {
	return gr.Group != apiextensions.GroupName && gr.Group != apiregistration.GroupName
}

// FeedOf returns the feed of a resource that is followed, and nil for others.
func (s *API) FeedOf(gr schema.GroupResource) *ResourceFeed {
	s.mu.Lock()
	defer s.mu.Unlock()
	if opened := s.mu.byResource[FeedKey{GroupResource: gr}]; opened != nil {
		if follows, ok := opened.Feed.(*ResourceFeed); ok && follows.Load() != nil {
			return follows
		}
	}
	return nil
}
