package other

func Here() {}
