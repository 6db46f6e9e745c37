//! Calls of the `tokenizers` crate, which panics on some files that read well (a `Precompiled` whose array leads nowhere, a `Strip` of more
//! characters than there are): here that is an error like others, and nothing is printed.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

thread_local! {
    /// Whether this thread is inside such a call.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// What `call` gives; an error in words.
pub(super) fn guarded<T>(call: impl FnOnce() -> tokenizers::Result<T>) -> Result<T, String> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let usual = take_hook();
        set_hook(Box::new(move |panic| {
            if !INSIDE.get() {
                usual(panic);
            }
        }));
    });
    INSIDE.set(true);
    // What the crate leaves behind are caches of whole words.
    let result = catch_unwind(AssertUnwindSafe(call));
    INSIDE.set(false);
    match result {
        Ok(result) => result.map_err(|error| error.to_string()),
        Err(_) => {
            Err("the `tokenizers` library breaks off: tokenizer.json is damaged, fetch it again".to_string())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_error() {
        assert_eq!(guarded(|| Ok(7)), Ok(7));
        assert_eq!(guarded::<()>(|| Err("no".into())), Err("no".to_string()));
        let none: [u8; 0] = [];
        assert!(guarded(|| Ok(none[std::hint::black_box(3)])).unwrap_err().contains("damaged"));
        assert!(!INSIDE.get());
    }
}
