package follow

import (
	"net/http"

	"github.com/millrace/millrace/internal/feed/apifeed"
)

// Sibling is another replica in front of the same upstream, whose objects are loaded in place
// of the upstream's. It is nil if there is none.
type Sibling struct {
	Client *http.Client
	// Host is the other replica's URL, without a slash at its end.
	Host string
}

// forPath returns the collection at a path, as an apifeed.Config.Sibling.
func (s *Sibling) forPath(path string) *apifeed.Sibling {
	if s == nil {
		return nil
	}
	return &apifeed.Sibling{Client: s.Client, URL: s.Host + path}
}
