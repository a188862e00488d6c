"""Graph to C++/CUDA text. Pure strings: no GPU library is imported here."""
