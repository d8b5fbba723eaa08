package openapi

// CachedBytes is the memory of the cached fragments.
func (s *Server) CachedBytes() int64 { return s.fragments.bytes() }
